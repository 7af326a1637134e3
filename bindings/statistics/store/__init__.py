"""The file format of saved statistics: layout, atomic writes, verified reads."""
