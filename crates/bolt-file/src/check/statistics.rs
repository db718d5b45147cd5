//! What a check counts on its way.

/// How the pages of a file are used. What lies below a page that cannot be read is not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Pages with keys and children, without overflow.
    pub branch_pages: u64,
    /// Pages with keys and values, without overflow.
    pub leaf_pages: u64,
    /// Pages that belong to the branch or leaf before them.
    pub overflow_pages: u64,
    /// Pages of the free list, with overflow.
    pub freelist_pages: u64,
    /// Pages that the free list has; where none is kept, those that nothing leads to.
    pub free_pages: u64,
    /// Bytes of branches that hold something: headers, elements, keys.
    pub branch_bytes: u64,
    /// Bytes of leaves that hold something: headers, elements, keys, values.
    pub leaf_bytes: u64,
    /// Keys with values, in all buckets.
    pub entries: u64,
    /// Buckets, inline ones and nested ones too.
    pub buckets: u64,
    /// Buckets without pages of their own.
    pub inline_buckets: u64,
    /// Pages on the longest way from the root to a leaf; a bucket's tree hangs from the leaf that names it.
    pub depth: u64,
    /// Bytes of the file past the high-water mark.
    pub trailing_bytes: u64,
}

impl Statistics {
    pub(crate) fn add(&mut self, other: Self) {
        let Self {
            branch_pages,
            leaf_pages,
            overflow_pages,
            freelist_pages,
            free_pages,
            branch_bytes,
            leaf_bytes,
            entries,
            buckets,
            inline_buckets,
            depth,
            trailing_bytes,
        } = other;
        self.branch_pages += branch_pages;
        self.leaf_pages += leaf_pages;
        self.overflow_pages += overflow_pages;
        self.freelist_pages += freelist_pages;
        self.free_pages += free_pages;
        self.branch_bytes += branch_bytes;
        self.leaf_bytes += leaf_bytes;
        self.entries += entries;
        self.buckets += buckets;
        self.inline_buckets += inline_buckets;
        self.depth = self.depth.max(depth);
        self.trailing_bytes += trailing_bytes;
    }
}
