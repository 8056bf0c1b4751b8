//! Sections of a page, with a table of contents on long pages.

use maud::{Markup, html};

/// A part of a page below a heading.
pub(super) struct Section {
    /// The heading.
    pub(super) title: String,
    /// Content below the heading.
    pub(super) body: Markup,
}

/// Minimum number of sections for a table of contents.
const LISTED_MIN: usize = 5;

/// Draws the sections in order, with links to them first if there are many.
pub(super) fn draw(sections: &[Section]) -> Markup {
    let id = |index: usize| format!("section-{}", index + 1);
    html! {
        @if sections.len() >= LISTED_MIN {
            nav.contents aria-label="Contents" {
                ol {
                    @for (index, section) in sections.iter().enumerate() {
                        li { a href={ "#" (id(index)) } { (section.title) } }
                    }
                }
            }
        }
        @for (index, section) in sections.iter().enumerate() {
            section id=(id(index)) {
                h2 { (section.title) }
                (section.body)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_long_page_has_a_list_and_every_link_leads_to_a_section() {
        let sections = |count: usize| -> String {
            let section = |index| Section { title: format!("T{index}"), body: html! { "words" } };
            draw(&(0..count).map(section).collect::<Vec<_>>()).into_string()
        };
        assert!(!sections(LISTED_MIN - 1).contains("<nav"));
        let long = sections(LISTED_MIN);
        for number in 1..=LISTED_MIN {
            assert!(long.contains(&format!("href=\"#section-{number}\"")), "{long}");
            assert!(long.contains(&format!("<section id=\"section-{number}\">")), "{long}");
        }
    }
}
