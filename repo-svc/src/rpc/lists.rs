use ferrite_kit::page::Page;

/// Limit for the size of a page.
const MAX_PAGE_SIZE: i32 = 1_000;

/// Returns the page that a request names, for lists without a limit of their own.
pub(super) fn page(page: i32, page_size: i32) -> Page {
    Page::nearest(page, page_size, MAX_PAGE_SIZE)
}
