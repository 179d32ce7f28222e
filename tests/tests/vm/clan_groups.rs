//! CLAN groups on four machines: a write to a group reaches all current members while members join
//! and leave. One user cannot take all groups.

use anyhow::{Result, ensure};
use hamlyn::clan::Descriptor;
use hamlyn_lab::{Lab, Run};
use serde_json::{Value, json};

use crate::clan::{aperture, clan_lab, desk, endpoint, made, nothing_is_left};
use crate::desk::Desk;
use crate::eventually;
use crate::left::log_is_clean;

const GROUP: u32 = 5;
const KEY: u64 = 77;
const LENGTH: usize = 4096;

/// A member process, and the number of its memory.
struct Member {
    desk: Desk<Run>,
    memory: Value,
}

impl Member {
    fn join(lab: &Lab, vm: usize, key: u64) -> Result<Self> {
        let mut desk = desk(lab, vm)?;
        let memory = made(&mut desk, &format!("join {GROUP} {key} {LENGTH}"), "aperture")?;
        Ok(Self { desk, memory })
    }

    fn has(&mut self, value: u64) -> Result<bool> {
        Ok(self.desk.ask(&format!("own {} 0", self.memory))? == json!({ "value": value }))
    }
}

struct Writer {
    desk: Desk<Run>,
    endpoint: Value,
    window: Value,
    value: u64,
}

impl Writer {
    /// Stores new values until every member has one. Repeating is necessary because the switch
    /// learns of a new member with a delay.
    fn reaches(&mut self, members: &mut [&mut Member]) -> Result<()> {
        self.value += 1;
        let (line, value) = (format!("store {} 0 {}", self.window, self.value), self.value);
        let what = format!("{value} comes to {} members", members.len());
        let arrived = || {
            self.desk.expect(&line, &json!({ "stored": true }))?;
            for member in members.iter_mut() {
                if !member.has(value)? {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        eventually(arrived, &what)
    }
}

#[test]
fn group_write_reaches_all_current_members() -> Result<()> {
    let lab = clan_lab(4)?;
    let group = Descriptor::of_group(GROUP, KEY, LENGTH as u64)?;
    let mut writer = desk(&lab, 0)?;
    let (own, _) = endpoint(&mut writer, "endpoint 0")?;
    let window = made(&mut writer, &format!("window {own} {group}"), "window")?;
    let mut writer = Writer { desk: writer, endpoint: own, window, value: 0 };
    // One member, then three. One of the three has another key and receives nothing.
    let mut one = Member::join(&lab, 1, KEY)?;
    writer.reaches(&mut [&mut one])?;
    one.desk.fails(&format!("join {GROUP} {KEY} {LENGTH}"), "in use")?;
    let mut two = Member::join(&lab, 2, KEY)?;
    let mut other = Member::join(&lab, 3, KEY + 1)?;
    writer.reaches(&mut [&mut one, &mut two])?;
    // The switch may learn of that member later.
    let refused = || {
        writer.reaches(&mut [&mut one, &mut two])?;
        Ok(lab.card_counters(3)?["card"]["refused_aperture"].as_u64() > Some(0))
    };
    eventually(refused, "the member with another key refuses")?;
    ensure!(other.has(0)?);
    drop(other);
    nothing_is_left(&lab, 3)?;
    let mut three = Member::join(&lab, 3, KEY)?;
    writer.reaches(&mut [&mut one, &mut two, &mut three])?;
    by_dma(&mut writer, &group, &mut [&mut one, &mut two, &mut three])?;
    writer.desk.fails(&format!("fetch {} 0", writer.window), "never read")?;
    members_leave(&lab, &mut writer, one, two, three)?;
    drop(writer);
    one_user_leaves_groups_to_others(&lab)?;
    for vm in [0, 1, 3] {
        nothing_is_left(&lab, vm)?;
        log_is_clean(&lab, vm)?;
    }
    Ok(())
}

fn by_dma(writer: &mut Writer, group: &Descriptor, members: &mut [&mut Member]) -> Result<()> {
    let (memory, _) = aperture(&mut writer.desk, LENGTH, "none")?;
    writer.desk.expect(&format!("fill {memory} 9"), &json!({ "filled": LENGTH }))?;
    writer.desk.expect(&format!("put {} {memory} {group} 3", writer.endpoint), &json!({ "done": 3 }))?;
    for member in members {
        let check = format!("check {} 9", member.memory);
        eventually(|| Ok(member.desk.ask(&check)? == json!({ "arrived": true })), "all of it arrives")?;
    }
    Ok(())
}

/// One member leaves, one is killed, and one machine dies. The remaining members receive all
/// writes, and a new member receives the writes after its join.
fn members_leave(lab: &Lab, writer: &mut Writer, one: Member, mut two: Member, three: Member) -> Result<()> {
    let (mut one, mut killed) = (one, three);
    one.desk.expect(&format!("close-aperture {}", one.memory), &json!({ "closed": true }))?;
    writer.reaches(&mut [&mut two, &mut killed])?;
    let mut anew = Member::join(lab, 1, KEY)?;
    ensure!(anew.has(0)?, "a new member does not have earlier writes");
    writer.reaches(&mut [&mut two, &mut killed, &mut anew])?;
    killed.desk.0.kill(9)?;
    killed.desk.0.wait()?;
    nothing_is_left(lab, 3)?;
    let mut three = Member::join(lab, 3, KEY)?;
    writer.reaches(&mut [&mut two, &mut three, &mut anew])?;
    lab.vm(2).kill()?;
    writer.reaches(&mut [&mut three, &mut anew])
}

/// Group memberships count towards the user's share, so another user still gets some.
fn one_user_leaves_groups_to_others(lab: &Lab) -> Result<()> {
    let mut joined = Vec::new();
    let mut greedy = Vec::new();
    for user in [1001, 1002] {
        let mut desk = Desk(lab.vm(0).run_as(user, ["clan-driver", "desk"])?);
        let mut count = 0;
        for group in 0..64 {
            let answer = desk.ask(&format!("join {group} 1 8"))?;
            count += usize::from(answer["aperture"].is_u64());
        }
        joined.push(count);
        greedy.push(desk);
    }
    ensure!(joined[0] < 40 && joined[1] > 8, "{joined:?} of 64 groups");
    Ok(())
}
