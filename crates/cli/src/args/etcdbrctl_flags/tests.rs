//! What becomes of flags that people have for etcdbrctl.

use store::Flavour;

use super::*;

fn translated(args: &[&str]) -> Result<(Vec<String>, Translator), String> {
    let mut program = crate::command();
    program.build();
    let mut theirs = Translator::default();
    let all = [&["refloat", "agent"], args].concat();
    let args = theirs.translate(&program, all.into_iter().map(OsString::from).collect());
    let args = args.map_err(|failure| format!("{failure:?}"))?;
    Ok((args.into_iter().skip(2).map(|arg| arg.into_string().unwrap()).collect(), theirs))
}

#[test]
fn their_flags_become_ours() {
    for (args, expected) in [
        (&["--delta-snapshot-period", "20s"][..], &["--seal-after=20s"][..]),
        (&["--delta-snapshot-period=20s", "--endpoints", "x"], &["--seal-after=20s", "--endpoints", "x"]),
        (&["-p", "8080"], &["--listen=0.0.0.0:8080"]),
        (&["-e=http://a", "-eb"], &["--endpoints=http://a", "--endpoints=b"]),
        (&["--insecure-transport", "/a", "--use-etcd-wrapper=true"], &["/a"]),
        (&["--etcd-defrag-timeout=15m0s"], &["--defragment-timeout=15m0s"]),
        (&["--unknown", "--cacert", "ca.pem"], &["--unknown", "--cacert", "ca.pem"]),
    ] {
        assert_eq!(translated(args).unwrap().0, expected, "{args:?}");
    }
    let (_, theirs) = translated(&["--schedule", "0 * * * *"]).unwrap();
    assert_eq!(theirs.notes, [format!("--schedule is ignored: {MERGED}")]);
    assert!(translated(&["--etcd-password", "x"]).unwrap_err().contains("--etcd-password-file"));
    assert!(translated(&["--schedule"]).unwrap_err().contains("--schedule has no value"));
}

#[test]
fn where_the_archive_is_is_put_together() {
    for (args, expected) in [
        (&[][..], None),
        (
            &["--storage-provider", "S3", "--store-container", "b", "--store-prefix", "/etcd/v2/"],
            Some("s3://b/etcd/v2"),
        ),
        (&["--storage-provider=GCS", "--store-container=b"], Some("gs://b")),
        (&["--store-container=/backup", "--store-prefix=etcd"], Some("/backup/etcd")),
    ] {
        let (_, theirs) = translated(args).unwrap();
        assert_eq!(theirs.archive(&Environment::default()).unwrap().as_deref(), expected, "{args:?}");
    }
    let (_, theirs) = translated(&["--storage-provider=minio", "--store-container=b"]).unwrap();
    assert!(format!("{:?}", theirs.archive(&Environment::default())).contains("--flavour"));
    let (_, theirs) = translated(&["--storage-provider=S3"]).unwrap();
    let environment = Environment::of([("STORAGE_CONTAINER", "c"), ("SECONDARY_STORAGE_CONTAINER", "d")]);
    assert_eq!(theirs.archive(&environment).unwrap().as_deref(), Some("s3://c"));
}

#[test]
fn whose_s3_it_is_is_said() {
    for (provider, flavour) in [("OSS", "oss"), ("OCS", "ceph"), ("ecs", "ecs")] {
        let provider = format!("--storage-provider={provider}");
        let (args, theirs) = translated(&[&provider, "--store-container=b"]).unwrap();
        assert_eq!(args, [format!("--flavour={flavour}")]);
        assert!(Flavour::parse(flavour).is_some());
        assert_eq!(theirs.archive(&Environment::default()).unwrap().as_deref(), Some("s3://b"));
    }
    assert_eq!(translated(&["--storage-provider=S3"]).unwrap().0, Vec::<String>::new());

    let both = |first: &str, second: &str| {
        let (first, second) = (format!("--storage-provider={first}"), format!("--secondary-storage-provider={second}"));
        let args: [&str; 4] = [&first, &second, "--secondary-store-container=c", "--secondary-backup-sync-enabled"];
        let (_, mut theirs) = translated(&args).unwrap();
        theirs.also(&Environment::default()).map_err(|failure| format!("{failure:?}"))
    };
    assert_eq!(both("OSS", "OSS"), Ok(Some("s3://c".into())));
    assert_eq!(both("OSS", "GCS"), Ok(Some("gs://c".into())));
    assert!(both("S3", "OSS").unwrap_err().contains("flavour: oss"));
    assert!(both("OSS", "S3").unwrap_err().contains("archive: s3://c"));
}

/// What etcd-druid starts its sidecar with; where its `etcd.conf.yaml` is, the sidecar knows and we are told.
#[test]
fn the_whole_command_line_of_druid_is_taken() {
    let druids = [
        "--server-port=8080",
        "--enable-snapshot-lease-renewal=true",
        "--full-snapshot-lease-name=etcd-main-full-snap",
        "--delta-snapshot-lease-name=etcd-main-delta-snap",
        "--storage-provider=OSS",
        "--store-prefix=etcd-main",
        "--store-endpoint-override=https://oss.example",
        "--schedule=0 */1 * * *",
        "--delta-snapshot-period=5m0s",
        "--delta-snapshot-retention-period=1h0m0s",
        "--delta-snapshot-memory-limit=104857600",
        "--garbage-collection-policy=LimitBased",
        "--max-backups=7",
        "--garbage-collection-period=12h0m0s",
        "--compress-snapshots=true",
        "--compression-policy=gzip",
        "--etcd-snapshot-timeout=15m0s",
        "--defragmentation-schedule=0 0 */3 * *",
        "--etcd-defrag-timeout=15m0s",
        "--auto-compaction-mode=periodic",
        "--auto-compaction-retention=30m",
        "--cacert=/var/etcd/ssl/ca/bundle.crt",
        "--cert=/var/etcd/ssl/client/tls.crt",
        "--key=/var/etcd/ssl/client/tls.key",
        "--insecure-transport=false",
        "--insecure-skip-tls-verify=false",
        "--endpoints=https://etcd-main-local:2379",
        "--service-endpoints=https://etcd-main-client:2379",
        "--server-cert=/var/etcdbr/ssl/server/tls.crt",
        "--server-key=/var/etcdbr/ssl/server/tls.key",
        "--data-dir=/var/etcd/data/new.etcd",
        "--restoration-temp-snapshots-dir=/var/etcd/data/restoration.temp",
        "--snapstore-temp-directory=/var/etcd/data/temp",
        "--etcd-connection-timeout=5m",
        "--use-etcd-wrapper=true",
        "--enable-member-lease-renewal=true",
        "--k8s-heartbeat-duration=10s",
        "--embedded-etcd-quota-bytes=8589934592",
        "--enable-profiling=true",
        "--etcd-connection-timeout-leader-election=5s",
        "--reelection-period=5s",
    ];
    let (ours, theirs) = translated(&druids).unwrap();
    let container = Environment::of([("STORAGE_CONTAINER", "bucket")]);
    let archive = theirs.archive(&container).unwrap().unwrap();
    assert_eq!(archive, "s3://bucket/etcd-main");

    let program = ["refloat", COMMAND, "--etcd-config=/var/etcd/config/etcd.conf.yaml"].map(str::to_owned);
    let all = program.into_iter().chain(ours.iter().cloned()).chain([archive]);
    if let Err(refused) = crate::command().try_get_matches_from(all) {
        panic!("{ours:?}: {refused}");
    }
}

#[test]
fn whether_etcd_is_verified_is_not_taken_for_the_store() {
    let words = |given: &str| translated(&[given]).unwrap().0;
    assert_eq!(words("--insecure-skip-tls-verify=true"), ["--insecure-skip-etcd-verify"]);
    assert_eq!(words("--insecure-skip-tls-verify=false"), Vec::<String>::new());
    assert_eq!(words("--insecure-skip-tls-verify"), ["--insecure-skip-tls-verify"]);
}

/// Whoever had etcdbrctl delete nothing does not lose what they kept.
#[test]
fn who_had_deleting_turned_off_keeps_all() {
    for period in ["0", "0s", "1s", "-1s"] {
        let (ours, theirs) = translated(&["--garbage-collection-period", period]).unwrap();
        assert_eq!((ours, theirs.notes.len()), (vec!["--keep-all".to_owned()], 0), "{period}");
    }
    for period in ["2s", "1m", "12h0m0s"] {
        let (ours, theirs) = translated(&["--garbage-collection-period", period]).unwrap();
        assert_eq!((ours.len(), theirs.notes.len()), (0, 1), "{period}");
    }
}

/// etcdbrctl's is the name of a member.
#[test]
fn whoever_comes_with_their_flags_is_told_whose_name_it_is_here() {
    for name in [&["--name", "etcd-0"][..], &["--name=etcd-0"]] {
        let (ours, theirs) = translated(name).unwrap();
        assert_eq!(ours, name);
        assert!(theirs.notes.is_empty(), "{:?}", theirs.notes);

        let (ours, theirs) = translated(&[name, &["--max-fetchers=6"]].concat()).unwrap();
        assert_eq!(ours, name, "it is ours all the same");
        let is_told = theirs.notes.iter().any(|note| note.contains("--name") && note.contains("--member"));
        assert!(is_told, "{:?}", theirs.notes);
    }
}

#[test]
fn the_second_store_is_another_destination_if_it_is_kept() {
    let (nothing, place) = (Environment::default(), ["--secondary-storage-provider=ABS", "--secondary-store-prefix=p"]);
    let named = [&place[..], &["--secondary-store-container=c"]].concat();
    let (_, mut theirs) = translated(&named).unwrap();
    assert_eq!(theirs.also(&nothing).unwrap(), None);
    assert!(theirs.notes[0].contains("--secondary-backup-sync-enabled"), "{:?}", theirs.notes);

    for kept in ["--secondary-backup-sync-enabled", "--secondary-backup-sync-enabled=true"] {
        let (_, mut theirs) = translated(&[&named[..], &[kept]].concat()).unwrap();
        assert_eq!(theirs.also(&nothing).unwrap().as_deref(), Some("az://c/p"));
        assert_eq!(theirs.archive(&nothing).unwrap(), None);
        let credentials = Environment::of([("SECONDARY_AZURE_APPLICATION_CREDENTIALS", "/creds")]);
        assert!(format!("{:?}", theirs.also(&credentials)).contains("archive: az://c/p"));
    }
    let (_, mut theirs) = translated(&[&place[..], &["--secondary-backup-sync-enabled"]].concat()).unwrap();
    let environment = Environment::of([("STORAGE_CONTAINER", "c"), ("SECONDARY_STORAGE_CONTAINER", "d")]);
    assert_eq!(theirs.also(&environment).unwrap().as_deref(), Some("az://d/p"));
    assert!(format!("{:?}", theirs.also(&nothing)).contains("--secondary-store-container"));
    let (_, mut theirs) = translated(&["--secondary-backup-sync-enabled"]).unwrap();
    assert!(format!("{:?}", theirs.also(&nothing)).contains("--secondary-store-container"));
    assert!(translated(&["--secondary-store-endpoint-override=x"]).unwrap_err().contains("--also"));
}

#[test]
fn every_flag_that_is_named_as_ours_is_there() {
    let mut program = crate::command();
    program.build();
    let command = program.find_subcommand(COMMAND).unwrap();
    let is_there = |name: &str| command.get_arguments().any(|arg| arg.get_long() == Some(name));
    for row in ROWS {
        match row.meaning {
            Same => assert!(is_there(row.name), "--{}", row.name),
            Called(ours) | Made(ours, _) => {
                assert!(is_there(ours) && !is_there(row.name), "--{ours}, --{}", row.name)
            }
            CalledWithValue(ours) => assert!(is_there(ours) && is_there(row.name), "--{ours}, --{}", row.name),
            Off(ours, ..) => assert!(is_there(ours) && !is_there(row.name), "--{ours}, --{}", row.name),
            Another(_) => assert!(is_there(row.name), "--{}", row.name),
            _ => assert!(!is_there(row.name), "--{} means something here", row.name),
        }
    }
}
