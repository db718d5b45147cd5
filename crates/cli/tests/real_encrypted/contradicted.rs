//! An archive that is not what a live member answered.

use std::fs;
use std::path::Path;

use tokio::runtime::Runtime;

use crate::command::{refloat, require_ok, require_refusal};
use crate::written::write;

#[test]
fn nothing_is_published_that_the_live_cluster_contradicts() {
    let runtime = Runtime::new().unwrap();
    for wrong_by in [0, 1] {
        let folder = tempfile::tempdir().unwrap();
        let archive = folder.path().join("archive");
        fs::create_dir(&archive).unwrap();
        write(&runtime, &archive, &[], wrong_by);
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let (src, etcd, file) = (at("archive"), at("etcd"), at("point.db"));
        for (args, made) in
            [(["restore", &src, "--data-dir", &etcd], &etcd), (["export", &src, "--output", &file], &file)]
        {
            let output = refloat(&args, &[]);
            if wrong_by == 0 {
                assert!(require_ok(&output).contains("revision 50 is what member m0 gave"));
            } else {
                require_refusal(&output, 4, "is not what the cluster had: HashKV at revision 50 is");
                assert!(!Path::new(made).exists());
                let anyway = [&args[..], &["--skip-hash-check"]].concat();
                require_ok(&refloat(&anyway, &[]));
            }
        }
        // Before the answer nothing contradicts.
        let before = at("before");
        require_ok(&refloat(&["restore", &src, "--at", "49", "--data-dir", &before], &[]));
    }
}
