/// Returns the names of the fields that are changed.
pub(crate) fn changed_fields<const N: usize>(fields: [(&'static str, bool); N]) -> Vec<&'static str> {
    fields.into_iter().filter(|(_, is_changed)| *is_changed).map(|(name, _)| name).collect()
}
