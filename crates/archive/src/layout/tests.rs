use super::sample::listed;
use super::*;

fn keys<'a>(keys: impl IntoIterator<Item = &'a Key>) -> Vec<&'a str> {
    keys.into_iter().map(Key::as_str).collect()
}

#[test]
fn several_archives_of_several_systems_are_told_apart() {
    let found = find(&listed(&[
        "garden/etcd/v2/Full-00000000-00000009-1700000000.gz",
        "garden/etcd/v2/notes.txt",
        "garden/etcd-2/v2/Full-00000000-00000007-1700000000.gz",
        "k3s/etcd-snapshot-node-1795224992",
        "k3s/.metadata/etcd-snapshot-node-1795224992",
        "ocp/snapshot_2026-11-21_013642.db",
        "ocp/static_kuberesources_2026-11-21_013642.tar.gz",
        "other/my-file-1795224992",
        "prod/20261121T093000Z-1a2b3c4d/full/00000000000000000123-20261121T093001Z.full",
        "readme",
    ]));
    let archives: Vec<_> = found.archives.iter().map(|archive| (archive.layout, archive.folder.as_str())).collect();
    let expected = [
        (Layout::Etcdbrctl, "garden/etcd"),
        (Layout::Etcdbrctl, "garden/etcd-2"),
        (Layout::OpenShift, "ocp"),
        (Layout::K3s, "k3s"),
    ];
    assert_eq!(archives, expected);
    let strangers = [
        "other/my-file-1795224992",
        "prod/20261121T093000Z-1a2b3c4d/full/00000000000000000123-20261121T093001Z.full",
        "readme",
    ];
    assert_eq!(keys(&found.strangers), strangers);
    assert_eq!(found.archives.iter().flat_map(PeerArchive::keys).count(), 7);
}

#[test]
fn who_says_what_a_place_is_is_believed() {
    let listed = listed(&["my-file-1795224992", "Full-00000000-00000007-1700000000.gz"]);
    assert_eq!(find(&listed).archives.len(), 1);
    let found = find_only(Layout::K3s, &listed);
    assert_eq!(found.iter().map(|archive| archive.entries.len()).collect::<Vec<_>>(), [1]);
    assert_eq!(find_only(Layout::OpenShift, &listed), []);
    assert_eq!(find_only(Layout::Refloat, &listed), []);
}

#[test]
fn a_large_listing_is_sorted_out_in_one_go() {
    let names: Vec<String> = (0..100_000)
        .map(|index| format!("c{}/v2/Incr-{:08}-{:08}-{}.gz", index % 7, index, index, 1_700_000_000 + index))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let found = find(&listed(&names));
    assert_eq!(found.archives.iter().map(|archive| archive.entries.len()).sum::<usize>(), 100_000);
    assert_eq!((found.archives.len(), found.strangers.len()), (7, 0));
}
