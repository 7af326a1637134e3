"""Decode file formats with compiled loops: Avro, Parquet footers (Thrift), JSON, spans of bytes."""
