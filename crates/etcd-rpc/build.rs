//! Makes the published messages and services, without `protoc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let published = protox::compile(["etcd/api/etcdserverpb/rpc.proto"], ["proto"])?;
    tonic_prost_build::configure()
        // Keys, values and pieces of snapshots stay in the buffer in which they came.
        .bytes(".")
        .build_server(std::env::var_os("CARGO_FEATURE_SERVER").is_some())
        .generate_default_stubs(true)
        .emit_rerun_if_changed(false)
        .compile_fds(published)?;
    Ok(())
}
