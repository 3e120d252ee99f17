//! Generates the OpenAPI 3.1 document from the routes, the signatures of their handlers, the
//! permission table, and the contracts: the comments of RPCs and messages, and the errors listed
//! there.

mod checks;
mod contracts;
mod document;
mod groups;
mod parameters;
mod summaries;
mod whole;
