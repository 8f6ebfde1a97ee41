//! What the fuzz targets share: a component that says, bytes for bytes,
//! whatever it is told to.

pub mod forger;
