/// A shape with texts of which a list may have the beginnings only.
pub trait LongTexts {
    /// Calls `visit` with each long text, and with its mark: true if the text is the beginning of a longer one.
    fn for_each_text(&mut self, visit: &mut dyn FnMut(&mut String, &mut bool));
}
