/// Gives a type that wraps a checked text access to it; with the way in which the text is folded, if such texts are compared or found.
macro_rules! checked_text {
    ($name:ident) => {
        impl $name {
            /// Returns the text as it was written.
            pub(crate) fn as_str(&self) -> &str {
                &self.0
            }
        }
    };
    ($name:ident, $fold:ident) => {
        checked_text!($name);

        impl $name {
            /// Returns the folded text, by which texts are compared and found.
            pub(crate) fn key(&self) -> String {
                self.0.$fold()
            }
        }
    };
}
pub(super) use checked_text;
