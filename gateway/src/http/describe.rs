//! What the handler of a route takes and returns, read off its signature, for the API's document.
//!
//! Not here: what the contract says about an operation: its comment, its errors, who may call it, and whether it writes.

use ferrite_api_types::schema::{Schema, Schemas};

use super::error::ApiError;

/// A function that returns a schema and adds its named parts to the others.
pub type SchemaFn = fn(&mut Schemas) -> Schema;

/// What a handler takes and returns.
#[derive(Clone, Debug, Default)]
pub struct Description {
    /// The parameters of the query.
    pub query: Vec<QueryParameter>,
    /// The body of the request.
    pub body: Option<BodyDescription>,
    /// The responses of success.
    pub responses: Vec<Success>,
}

/// A parameter of the query.
#[derive(Clone, Debug)]
pub struct QueryParameter {
    /// Its name.
    pub name: &'static str,
    /// What it means.
    pub about: &'static str,
    /// Its values.
    pub schema: Schema,
}

/// The JSON body of a request.
#[derive(Clone, Debug)]
pub struct BodyDescription {
    /// Its value.
    pub schema: SchemaFn,
    /// Most bytes.
    pub max_bytes: usize,
}

/// A response of success.
#[derive(Clone, Debug)]
pub struct Success {
    /// Its status.
    pub status: u16,
    /// Its value; `None` for a response without a body.
    pub schema: Option<SchemaFn>,
    /// True for a page of a list, which has the headers of one.
    pub is_page: bool,
}

/// A part of a request that a handler takes. Paths and credentials add nothing: the route and the contract tell about them.
pub(crate) trait Input {
    /// Adds the part to the description.
    fn describe(_: &mut Description) {}
}

/// The response of a handler that succeeds.
pub(crate) trait Output {
    /// Adds the response to the description.
    fn describe(about: &mut Description);
}

/// An asynchronous function that takes `Inputs`.
pub(crate) trait Handler<Inputs> {
    /// Adds the inputs and the output to the description.
    fn describe(about: &mut Description);
}

/// Implements [`Handler`] for functions of each number of inputs.
macro_rules! handlers {
    ($([$($input:ident)+])+) => {$(
        impl<F, R, T, $($input),+> Handler<($($input,)+)> for F
        where
            F: Fn($($input),+) -> R,
            R: Future<Output = Result<T, ApiError>>,
            T: Output,
            $($input: Input,)+
        {
            fn describe(about: &mut Description) {
                $(<$input as Input>::describe(about);)+
                <T as Output>::describe(about);
            }
        }
    )+};
}

handlers! { [A] [A B] [A B C] [A B C D] [A B C D E] }

/// Adds what a handler takes and returns to the description.
pub(crate) fn describe<Inputs, H: Handler<Inputs>>(_: H, about: &mut Description) {
    <H as Handler<Inputs>>::describe(about);
}
