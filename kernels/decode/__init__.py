"""Compiled loops that read formats: Avro, Thrift (Parquet footers), JSON and spans of bytes."""
