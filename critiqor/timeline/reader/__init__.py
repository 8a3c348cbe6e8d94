"""Reading a timeline file: bytes to lines to records, with repair of damaged lines."""
