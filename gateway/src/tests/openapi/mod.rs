//! The document of the API (OpenAPI 3.1). It is made of the routes, the signatures of their handlers, and the contracts: the comments of
//! RPCs and messages, the errors that these list, and the permission table.

mod checks;
mod contracts;
mod document;
mod groups;
mod parameters;
mod whole;
