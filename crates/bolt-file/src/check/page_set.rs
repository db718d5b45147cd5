//! A set of pages, one bit each, that several threads add to.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::page::PageId;

/// Pages below a limit.
pub(crate) struct PageSet {
    words: Vec<AtomicU64>,
    limit: u64,
}

impl PageSet {
    /// An empty set of pages below `limit`; nothing if there is not the memory for it.
    pub(crate) fn below(limit: u64) -> Option<Self> {
        let len = usize::try_from(limit.div_ceil(64)).ok()?;
        let mut words = Vec::new();
        words.try_reserve_exact(len).ok()?;
        words.resize_with(len, AtomicU64::default);
        Some(Self { words, limit })
    }

    /// Adds `page`. False if it was there before, or can never be.
    pub(crate) fn insert(&self, page: PageId) -> bool {
        let bit = 1 << (page.0 % 64);
        // Each bit stands for itself: no other memory is published through it.
        self.word(page).is_some_and(|word| word.fetch_or(bit, Ordering::Relaxed) & bit == 0)
    }

    pub(crate) fn contains(&self, page: PageId) -> bool {
        self.word(page).is_some_and(|word| word.load(Ordering::Relaxed) >> (page.0 % 64) & 1 == 1)
    }

    pub(crate) fn len(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.load(Ordering::Relaxed).count_ones())).sum()
    }

    /// The first page that cannot be in the set.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    fn word(&self, page: PageId) -> Option<&AtomicU64> {
        let word = usize::try_from(page.0 / 64).ok()?;
        self.words.get(word).filter(|_| page.0 < self.limit)
    }
}

/// The runs of neighbouring pages from `first` to below `end` of which `belongs` is true.
pub(crate) fn runs(first: u64, end: u64, belongs: impl Fn(PageId) -> bool) -> impl Iterator<Item = (PageId, u64)> {
    let mut next = first;
    std::iter::from_fn(move || {
        let start = (next..end).find(|&page| belongs(PageId(page)))?;
        next = (start..end).find(|&page| !belongs(PageId(page))).unwrap_or(end);
        Some((PageId(start), next - start))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_added_once() {
        let set = PageSet::below(70).unwrap();
        assert!(set.insert(PageId(69)));
        assert!(!set.insert(PageId(69)));
        assert!(!set.insert(PageId(70)), "past the limit, in the last word");
        assert!(!set.insert(PageId(u64::MAX)));
        assert_eq!((set.contains(PageId(69)), set.contains(PageId(70)), set.len()), (true, false, 1));
    }

    #[test]
    fn a_set_that_no_memory_can_hold_is_refused() {
        assert!(PageSet::below(u64::MAX).is_none());
    }

    #[test]
    fn neighbours_form_runs() {
        let odd_or_large = |page: PageId| page.0 % 2 == 1 || page.0 > 6;
        let found: Vec<_> = runs(2, 10, odd_or_large).map(|(page, pages)| (page.0, pages)).collect();
        assert_eq!(found, [(3, 1), (5, 1), (7, 3)]);
    }
}
