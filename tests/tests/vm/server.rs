//! The server of docs/programming.md and its clients in machines.

use anyhow::Result;
use hamlyn_lab::Lab;

use crate::lab_of;

#[test]
fn named_server_serves_local_and_remote_clients() -> Result<()> {
    // Each client has two queues at the server's card, and eight have a terminus.
    let lab = lab_of(Lab::builder().vms(2).card_args(["--queues", "1024", "--termini", "128"]));
    let mut server = lab.vm(1).run(["kv-server", "serve", "--until", "205", "--patience", "300000"])?;
    assert_eq!(server.answer()?["listening"], "kv");
    let crowd = |vm: usize, clients: &str, more: &[&str]| {
        let asked = ["kv-server", "crowd", "--host", "1", "--clients", clients, "--requests", "400"];
        lab.vm(vm).run([&asked[..], more].concat())
    };
    let far = crowd(0, "200", &[])?;
    let near = crowd(1, "5", &["--size", "10000", "--ask", "put"])?;
    for mut run in [far, near] {
        let result = run.finish()?;
        assert_eq!(result.last().map(|result| &result["messages"]), Some(&serde_json::json!(400)));
    }
    assert_eq!(server.finish()?.last().map(|result| &result["served"]), Some(&serde_json::json!(205)));
    Ok(())
}
