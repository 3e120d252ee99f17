//! git over SSH: the real `ssh` and `git` programs against the gateway.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::concurrent::join_all;
use crate::harness::ssh::{Client, client_of};
use crate::harness::{Cluster, Role, User};

on_profiles! {
    both {
        every_form_of_a_path_names_the_repository
        a_removed_key_is_refused_on_an_open_connection
        host_keys_are_of_both_kinds_and_sha_1_is_not_spoken
        an_address_with_many_unknown_keys_is_blocked_for_a_while
    }
    embedded {
        an_unknown_key_is_refused
        hidden_and_missing_repositories_get_the_same_response
        readers_do_not_push_and_mirrors_are_read_only
        a_deploy_key_opens_its_repositories_alone
        an_address_that_signed_in_is_not_blocked_by_unknown_keys_of_others
        there_is_a_greeting_and_no_shell
        nothing_is_forwarded
    }
}

const WAIT_TIMEOUT: Duration = Duration::from_secs(60);
/// git's option for protocol version 2, in which git-upload-pack ends when the client sends
/// nothing.
const VERSION_2: &[&str] = &["-o", "SendEnv=GIT_PROTOCOL"];

async fn deployed(cluster: &Cluster, owner: &User, name: &str, is_read_only: bool) -> Client {
    let client = Client::new(cluster, "ed25519").await;
    deploy(&client, owner, name, is_read_only).await;
    client
}

async fn deploy(client: &Client, owner: &User, name: &str, is_read_only: bool) {
    let body = json!({"title": "test", "key": client.public(), "read_only": is_read_only});
    owner.post(&owner.repo(name, "/keys"), &body).await.expect(201);
}

async fn every_form_of_a_path_names_the_repository(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("Demo", json!({"auto_init": true})).await;
    let client = client_of(cluster, &ada, "rsa").await;
    let (host, port, name) = (&client.host, &client.port, &ada.name);
    for url in [
        format!("ssh://git@{host}:{port}/{name}/Demo.git"),
        format!("ssh://anybody@{host}:{port}/{}/dEMO", name.to_uppercase()),
        format!("git@{host}:{name}/Demo.git"),
        format!("git@{host}:/{name}/demo"),
        format!("ssh://git@{host}:{port}/{name}/Demo.git/"),
        format!("git@{host}:{name}/Demo.git/"),
    ] {
        assert!(client.git("", &["ls-remote", &url]).await.contains("HEAD"), "{url}");
    }
    for path in [format!("{name}/Demo.git//"), name.clone(), format!("{name}/"), format!("{name}/Demo/x")] {
        let stderr = client.fails("", &["ls-remote", &format!("git@{host}:{path}")]).await;
        assert!(stderr.starts_with("Ferrite: Invalid repository path\n"), "{path}: {stderr}");
    }
    let missing = "Ferrite: Repository does not exist or you do not have access\n";
    for path in [format!("{name}/Demo.wiki.git"), "no-such-user/x.git".to_owned(), format!("{name}/..")] {
        let stderr = client.fails("", &["ls-remote", &format!("git@{host}:{path}")]).await;
        assert!(stderr.starts_with(missing), "{path}: {stderr}");
    }
    let (status, advertised, _) = client.run(VERSION_2, &[&format!("git upload-pack '{name}/Demo'")]).await;
    assert!(status == Some(0) && advertised.contains("version 2"), "{advertised}");
}

async fn an_unknown_key_is_refused(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("open", json!({"auto_init": true})).await;
    let unknown = Client::new(cluster, "ed25519").await;
    let stderr = unknown.fails("", &["ls-remote", &unknown.url(&ada.name, "open")]).await;
    assert!(stderr.contains("Permission denied (publickey)"), "{stderr}");
    let (status, _, stderr) = unknown.run(&["-o", "PreferredAuthentications=password,none"], &["true"]).await;
    assert!(status == Some(255) && stderr.contains("Permission denied (publickey)"), "{stderr}");
}

async fn hidden_and_missing_repositories_get_the_same_response(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    ada.new_repository("hidden", json!({"auto_init": true, "private": true})).await;
    let client = client_of(cluster, &bob, "ed25519").await;
    for verb in ["git-upload-pack", "git-receive-pack", "git-upload-archive"] {
        let mut responses = Vec::new();
        for name in ["hidden", "absent"] {
            responses.push(client.run(&[], &[&format!("{verb} '{}/{name}.git'", ada.name)]).await);
        }
        assert_eq!(responses[0], responses[1]);
        let text = "Ferrite: Repository does not exist or you do not have access".to_owned();
        assert_eq!(responses[0], (Some(1), String::new(), text));
    }
}

async fn readers_do_not_push_and_mirrors_are_read_only(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let open = ada.new_repository("open", json!({"auto_init": true})).await;
    let (owner, reader) = (client_of(cluster, &ada, "ed25519").await, client_of(cluster, &bob, "ecdsa").await);
    let url = reader.url(&ada.name, "open");
    reader.git("", &["clone", "-q", &url, "work"]).await;
    let stderr = reader.fails("work", &["push", &url, "HEAD:refs/heads/x"]).await;
    assert!(stderr.starts_with("Ferrite: You do not have sufficient authorization for this action\n"), "{stderr}");
    let statement = format!("UPDATE repositories SET is_mirror = (1 = 1) WHERE id = {}", open["id"]);
    cluster.change(Role::Repo, statement).await;
    let push = format!("git-receive-pack '{}/open.git'", ada.name);
    let (status, _, stderr) = owner.run(&[], &[&push]).await;
    assert_eq!((status, stderr.as_str()), (Some(1), "Ferrite: Mirror repository is read-only"));
    owner.git("", &["clone", "-q", &url, "copy"]).await;
}

async fn a_deploy_key_opens_its_repositories_alone(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    for (name, is_private) in [("mine", true), ("shared", true), ("other", true), ("open", false)] {
        ada.new_repository(name, json!({"auto_init": true, "private": is_private})).await;
    }
    let client = deployed(cluster, &ada, "mine", false).await;
    deploy(&client, &ada, "shared", true).await;
    client.git("", &["clone", "-q", &client.url(&ada.name, "mine"), "work"]).await;
    let tip = client.git.commit("work", "by-a-key", "x").await;
    client.git("work", &["push", "-q", "origin", "HEAD:main", "HEAD:refs/heads/x"]).await;
    ada.eventually(&ada.repo("mine", "/branches/x"), |branch| branch["commit"]["id"] == tip.as_str()).await;
    for (name, text) in [
        ("shared", "Key permission denied"),
        ("open", "Key permission denied"),
        ("other", "Repository does not exist or you do not have access"),
        ("absent", "Repository does not exist or you do not have access"),
    ] {
        let url = client.url(&ada.name, name);
        let stderr = client.fails("work", &["push", &url, "HEAD:refs/heads/x"]).await;
        assert!(stderr.starts_with(&format!("Ferrite: {text}\n")), "{name}: {stderr}");
        if text.starts_with("Key") {
            client.git("", &["ls-remote", &url]).await;
        } else {
            client.fails("", &["ls-remote", &url]).await;
        }
    }
    let (status, greeting, _) = client.run(&[], &[]).await;
    assert!(status == Some(1) && greeting.contains("deploy key"), "{greeting}");
}

async fn there_is_a_greeting_and_no_shell(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let client = client_of(cluster, &ada, "ed25519").await;
    let (status, greeting, _) = client.run(&["-T"], &[]).await;
    assert_eq!(status, Some(1));
    assert!(greeting.contains(&ada.name) && greeting.lines().count() == 1, "{greeting}");
    let (status, _, stderr) = client.run(&["-tt"], &[]).await;
    assert!(status != Some(0) && stderr.contains("PTY allocation request failed"), "{stderr}");
    for command in ["id", "git gc", "git-shell", "git-upload-pack a/b; id", "/bin/sh -c id", "git-lfs-authenticate a/b"]
    {
        let (status, stdout, stderr) = client.run(&[], &[command]).await;
        assert_eq!((status, stdout.as_str()), (Some(1), ""), "{command}");
        assert!(stderr == "Ferrite: Unknown git command" || stderr == "Ferrite: Invalid repository path", "{stderr}");
    }
    let (status, _, stderr) = client.run(&["-s"], &["sftp"]).await;
    assert!(status != Some(0) && stderr.contains("subsystem request failed"), "{stderr}");
    let (status, _, _) =
        client.run(&["-o", "SetEnv=LD_PRELOAD=x GIT_PROTOCOL=--upload-pack"], &["git-upload-pack 'a/b'"]).await;
    assert_eq!(status, Some(1));
}

async fn nothing_is_forwarded(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let client = client_of(cluster, &ada, "ed25519").await;
    let (status, _, stderr) = client.run(&["-o", "LogLevel=INFO", "-W", "127.0.0.1:1"], &[]).await;
    assert!(status != Some(0) && stderr.contains("administratively prohibited"), "{stderr}");
    for forward in [["-R", "0:127.0.0.1:1"], ["-R", "/tmp/ferrite-test.sock:127.0.0.1:1"]] {
        let (status, _, stderr) =
            client.run(&["-o", "ExitOnForwardFailure=yes", "-N", forward[0], forward[1]], &[]).await;
        assert!(status != Some(0) && stderr.contains("forwarding failed"), "{stderr}");
    }
    let (status, greeting, _) = client.run(&["-A", "-X"], &[]).await;
    assert!(status == Some(1) && greeting.contains(&ada.name), "{greeting}");
}

async fn a_removed_key_is_refused_on_an_open_connection(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("demo", json!({"auto_init": true})).await;
    let client = client_of(cluster, &ada, "ed25519").await;
    // Paths of Unix sockets are limited to about 100 bytes.
    let folder = tempfile::Builder::new().prefix("fe").tempdir_in("/tmp").unwrap();
    let control = format!("ControlPath={}", folder.path().join("c").display());
    let mut master = client.ssh(&["-M", "-N", "-o", &control, VERSION_2[0], VERSION_2[1]], &[]).spawn().unwrap();
    wait_until("the connection is shared", || folder.path().join("c").exists()).await;
    let command = format!("git-upload-archive '{}/demo.git'", ada.name);
    let shared = ["-o", control.as_str(), "-o", "ControlMaster=no", VERSION_2[0], VERSION_2[1]];
    let fetch = format!("git-upload-pack '{}/demo.git'", ada.name);
    let command_line = [fetch.as_str()];
    let list = || async {
        let (status, stdout, stderr) = client.run(&shared, &command_line).await;
        assert!(status == Some(0) && stdout.contains("version 2"), "{stderr}");
    };
    tokio::join!(list(), list(), list(), list());
    let keys = ada.get("/user/keys").await.expect(200).json();
    ada.delete(&format!("/user/keys/{}", keys[0]["id"])).await.expect(204);
    let (status, _, stderr) = client.run(&shared, &[&command]).await;
    assert_eq!((status, stderr.as_str()), (Some(1), "Ferrite: This key is no longer registered"));
    master.kill().await.unwrap();
    let stderr = client.fails("", &["ls-remote", &client.url(&ada.name, "demo")]).await;
    assert!(stderr.contains("Permission denied (publickey)"), "{stderr}");
}

async fn wait_until(what: &str, check: impl Fn() -> bool) {
    let start = Instant::now();
    while !check() {
        assert!(start.elapsed() < WAIT_TIMEOUT, "timeout: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn host_keys_are_of_both_kinds_and_sha_1_is_not_spoken(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let client = client_of(cluster, &ada, "rsa").await;
    for algorithm in ["ssh-ed25519", "rsa-sha2-512", "rsa-sha2-256"] {
        let known = format!("UserKnownHostsFile={}", client.git.path().join(algorithm).display());
        let (status, greeting, stderr) =
            client.run(&["-o", &format!("HostKeyAlgorithms={algorithm}"), "-o", &known], &[]).await;
        assert!(status == Some(1) && greeting.contains(&ada.name), "{algorithm}: {stderr}");
    }
    for (setting, text) in [
        ("HostKeyAlgorithms=ssh-rsa", "no matching host key type"),
        ("KexAlgorithms=diffie-hellman-group14-sha1", "no matching key exchange method"),
        ("PubkeyAcceptedAlgorithms=ssh-rsa", "Permission denied"),
    ] {
        let (status, _, stderr) = client.run(&["-o", "LogLevel=INFO", "-o", setting], &[]).await;
        assert!(status == Some(255) && stderr.contains(text), "{setting}: {stderr}");
    }
}

async fn an_address_with_many_unknown_keys_is_blocked_for_a_while(cluster: &Cluster) {
    let (unknown, ada) = (Client::new(cluster, "ed25519").await, cluster.user("ada").await);
    let client = client_of(cluster, &ada, "ed25519").await;
    // Addresses that no other test uses, because failures count per address.
    let number = cluster.ssh().split('.').nth(1).unwrap().to_owned();
    let (bad, good) = (format!("127.1.{number}.1"), format!("127.1.{number}.2"));
    let mut denied = 0;
    loop {
        let bind = ["-b", bad.as_str()];
        let tries = (0..10).map(|_| unknown.run(&bind, &[]));
        let stderr: Vec<_> = join_all(tries).await;
        let now = stderr.iter().filter(|(_, _, stderr)| stderr.contains("Permission denied (publickey)")).count();
        if now == 0 {
            break;
        }
        denied += now;
        assert!(denied < 100, "it is never blocked");
    }
    assert!(denied >= 60, "{denied}");
    assert_eq!(client.run(&["-b", &bad], &[]).await.0, Some(255), "a good key from a blocked address");
    assert_eq!(client.run(&["-b", &good], &[]).await.0, Some(1), "another address");
}

async fn an_address_that_signed_in_is_not_blocked_by_unknown_keys_of_others(cluster: &Cluster) {
    let (unknown, ada) = (Client::new(cluster, "ed25519").await, cluster.user("ada").await);
    let client = client_of(cluster, &ada, "ed25519").await;
    let number = cluster.ssh().split('.').nth(1).unwrap().to_owned();
    let office = format!("127.1.{number}.3");
    let bind = ["-b", office.as_str()];
    assert_eq!(client.run(&bind, &[]).await.0, Some(1), "the greeting");
    for _ in 0..7 {
        let tries = (0..10).map(|_| unknown.run(&bind, &[]));
        for (_, _, stderr) in join_all(tries).await {
            assert!(stderr.contains("Permission denied (publickey)"), "{stderr}");
        }
    }
    assert_eq!(client.run(&bind, &[]).await.0, Some(1), "after 70 failures of someone else");
}
