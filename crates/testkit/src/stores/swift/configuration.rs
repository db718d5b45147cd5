//! The files from which the four servers of a Swift cluster of one device start.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{Ports, Swift};

/// Writes them all. With `keystone_url` the proxy asks Keystone about tokens, without it its own list.
pub(super) fn write(folder: &Path, ports: &Ports, keystone_url: Option<&str>) {
    fs::create_dir_all(folder.join("srv/disk")).unwrap();
    let cluster = "[swift-hash]\nswift_hash_path_suffix = test\nswift_hash_path_prefix = test\n";
    fs::write(folder.join("swift.conf"), cluster).unwrap();
    for (name, port) in [("account", &ports.account), ("container", &ports.container), ("object", &ports.object)] {
        let text = format!(
            "{}devices = {}/srv\nmount_check = false\nfallocate_reserve = 0\n\
             [pipeline:main]\npipeline = {name}-server\n\
             [app:{name}-server]\nuse = egg:swift#{name}\n",
            common(folder, port.number()),
            folder.display(),
        );
        fs::write(folder.join(format!("{name}.conf")), text).unwrap();
    }
    fs::write(folder.join("proxy.conf"), proxy(folder, ports, keystone_url)).unwrap();
}

fn common(folder: &Path, port: u16) -> String {
    // Without workers the server is the process that was started.
    format!(
        "[DEFAULT]\nbind_ip = 127.0.0.1\nbind_port = {port}\nworkers = 0\nswift_dir = {}\nuser = {}\n\
         log_address = /nonexistent\ncontainer_update_timeout = 60\nnode_timeout = 60\nconn_timeout = 10\n",
        folder.display(),
        whoever_runs_this(),
    )
}

/// Swift becomes the user `swift` unless it is told of another.
fn whoever_runs_this() -> String {
    let told = Command::new("id").arg("-un").output().expect("the program id");
    String::from_utf8_lossy(&told.stdout).trim().to_owned()
}

fn proxy(folder: &Path, ports: &Ports, keystone_url: Option<&str>) -> String {
    let (auth, filters) = match keystone_url {
        None => ("tempauth", tempauth()),
        Some(url) => ("authtoken keystoneauth", keystoneauth(url)),
    };
    format!(
        "{}[pipeline:main]\n\
         pipeline = catch_errors healthcheck cache bulk {auth} copy container_quotas slo dlo proxy-server\n\
         [filter:catch_errors]\nuse = egg:swift#catch_errors\n\
         [filter:healthcheck]\nuse = egg:swift#healthcheck\n\
         [filter:cache]\nuse = egg:swift#memcache\nmemcache_servers = 127.0.0.1:{}\n\
         {filters}\
         [filter:bulk]\nuse = egg:swift#bulk\n\
         [filter:slo]\nuse = egg:swift#slo\n\
         [filter:dlo]\nuse = egg:swift#dlo\n\
         [filter:copy]\nuse = egg:swift#copy\n\
         [filter:container_quotas]\nuse = egg:swift#container_quotas\n\
         [app:proxy-server]\nuse = egg:swift#proxy\naccount_autocreate = true\n\
         node_timeout = 60\nrecoverable_node_timeout = 60\nconn_timeout = 10\n",
        common(folder, ports.proxy.number()),
        ports.memcached.number(),
    )
}

fn tempauth() -> String {
    format!(
        "[filter:tempauth]\nuse = egg:swift#tempauth\n\
         user_{0}_{1} = {2} .admin\n\
         user_{0}_guest = {2}\n",
        Swift::ACCOUNT,
        Swift::USER,
        Swift::PASSWORD
    )
}

fn keystoneauth(url: &str) -> String {
    format!(
        "[filter:authtoken]\npaste.filter_factory = keystonemiddleware.auth_token:filter_factory\n\
         www_authenticate_uri = {url}\nauth_url = {url}\nauth_type = password\n\
         project_domain_id = default\nuser_domain_id = default\n\
         project_name = service\nusername = swift\npassword = swift\n\
         delay_auth_decision = True\nservice_token_roles_required = True\n\
         [filter:keystoneauth]\nuse = egg:swift#keystoneauth\noperator_roles = admin, member\n"
    )
}
