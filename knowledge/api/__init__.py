"""The REST door of knowledge. Views check the shape, fetch with access, call one verb and serialise."""
