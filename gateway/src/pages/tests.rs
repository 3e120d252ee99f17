//! Pages as visitors get them.
