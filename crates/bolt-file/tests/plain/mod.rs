//! A second reader of bolt files: plain, believing everything, sharing no code with the crate.

use std::collections::BTreeMap;

/// A bucket, as it stands in the file.
#[derive(Default)]
pub(crate) struct Tree {
    /// All keys and their values, those of buckets too.
    pub(crate) all: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(crate) buckets: BTreeMap<Vec<u8>, Tree>,
}

/// The bucket of buckets of the commit with the larger transaction; both metas must be whole.
pub(crate) fn read(file: &[u8]) -> Tree {
    let page_size = number(file, 24, 4);
    let newest = if number(file, 64, 8) > number(file, page_size + 64, 8) { 0 } else { page_size };
    let mut tree = Tree::default();
    read_page(file, page_size, number(file, newest + 32, 8) * page_size, &mut tree);
    tree
}

fn read_page(file: &[u8], page_size: usize, page: usize, tree: &mut Tree) {
    let is_branch = number(file, page + 8, 2) == 1;
    for index in 0..number(file, page + 10, 2) {
        let element = page + 16 + 16 * index;
        if is_branch {
            read_page(file, page_size, number(file, element + 8, 8) * page_size, tree);
            continue;
        }
        let [flags, pos, key_len, value_len] = [0, 4, 8, 12].map(|field| number(file, element + field, 4));
        let (key, value) = file[element + pos..element + pos + key_len + value_len].split_at(key_len);
        tree.all.insert(key.to_vec(), value.to_vec());
        if flags == 1 {
            let mut inner = Tree::default();
            match number(value, 0, 8) {
                0 => read_page(value, page_size, 16, &mut inner),
                root => read_page(file, page_size, root * page_size, &mut inner),
            }
            tree.buckets.insert(key.to_vec(), inner);
        }
    }
}

fn number(bytes: &[u8], at: usize, len: usize) -> usize {
    bytes[at..at + len].iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte))
}
