//! What a live member gave decides whether anything is published.

use std::fs;

use super::*;
use crate::error::Kind;
use crate::hash::{HashKv, hash_kv};

/// What a member would have given at `at`, compacted at `compact`: by a sample that was really compacted.
fn answer(at: i64, compact: Option<i64>) -> HashKv {
    let mut sample = puts_and_deletes();
    if let Some(compact) = compact {
        sample.compact(compact);
    }
    hash_kv(&sample.database(), Some(Revision(at)), None).unwrap()
}

#[test]
fn every_answer_of_the_cluster_is_found_right_and_every_other_is_refused() {
    let source = puts_and_deletes().database();
    let folder = tempfile::tempdir().unwrap();
    let mut compared = 0;
    for at in [4, 8] {
        for (anchored_at, compact) in
            (1..=at).step_by(2).flat_map(|a| (1..=a).map(move |c| (a, Some(c).filter(|c| *c > 1))))
        {
            let anchor = answer(anchored_at, compact);
            let targets = [(None, Bump::No), (Some(at), Bump::No), (Some(at.min(3)), Bump::No), (None, Bump::By(9))];
            for (compact_at, bump) in targets.into_iter().filter(|(compact_at, _)| compact_at.is_none_or(|at| at > 1)) {
                let mut options = options(folder.path().join("data"));
                (options.at, options.compact_at) = (Some(Revision(at)), compact_at.map(Revision));
                (options.bump, options.anchor) = (bump, Some(anchor));
                restored(&source, &options);
                fs::remove_dir_all(&options.data_dir).unwrap();

                let wrong = HashKv { hash: anchor.hash ^ 1, ..anchor };
                options.anchor = Some(wrong);
                let plan = Plan::make(&source, &options).unwrap();
                let error = restore(&source, &plan, &mut |_| {}).unwrap_err();
                assert!(matches!(error, RestoreError::Anchor { anchor, .. } if anchor == wrong), "{error}");
                assert_eq!(error.kind(), Kind::Corrupt);
                assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
                compared += 1;
            }
        }
    }
    assert!(compared > 60, "{compared}");
}
