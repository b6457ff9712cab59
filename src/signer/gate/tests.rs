use super::*;
use crate::pool::NoopObserver;

const SOON: Duration = Duration::from_millis(50);
const LATE: Duration = Duration::from_secs(20);

fn slot(id: u32) -> Slot {
    Slot::try_from(id).unwrap()
}

fn gate(workers: usize) -> Arc<Gate> {
    Arc::new(Gate::new(workers, slot(7), Arc::new(NoopObserver)))
}

#[test]
fn one_failure_seen_by_many_workers_is_repaired_once() {
    let gate = gate(2);
    let seen = gate.enter(0, Instant::now()).unwrap().epoch;
    gate.report(seen, ErrorClass::Login);
    gate.report(seen, ErrorClass::Device);
    assert_eq!(gate.next_task(SOON), SignerTask::Repair(ErrorClass::Login));
    gate.open(slot(7), false);
    gate.report(seen, ErrorClass::Device);
    assert_eq!(gate.next_task(SOON), SignerTask::Probe);
    assert!(gate.ready());
}

#[test]
fn repair_waits_for_the_last_call_to_return() {
    let gate = gate(1);
    let pass = gate.enter(0, Instant::now()).unwrap();
    gate.report(pass.epoch, ErrorClass::Device);
    std::thread::scope(|scope| {
        let drained = scope.spawn(|| gate.drain());
        std::thread::sleep(SOON);
        assert!(!drained.is_finished());
        drop(pass);
        assert!(drained.join().unwrap());
    });
}

#[test]
fn caller_waits_for_a_repair_but_not_past_its_deadline() {
    let gate = gate(1);
    gate.report(Epoch::default(), ErrorClass::Device);
    assert_eq!(gate.enter(0, Instant::now() + SOON).err(), Some(SignRefusal::Timeout));
    std::thread::scope(|scope| {
        let entered = scope.spawn(|| gate.enter(0, Instant::now() + LATE).map(|pass| (pass.epoch, pass.slot)));
        std::thread::sleep(SOON);
        gate.open(slot(9), true);
        let (epoch, at) = entered.join().unwrap().unwrap();
        assert_eq!((epoch, at), (Epoch { incarnation: 1, login: 1 }, slot(9)));
    });
}

#[test]
fn failed_repair_refuses_at_once() {
    let gate = gate(1);
    gate.report(Epoch::default(), ErrorClass::Device);
    gate.refuse_calls("gone");
    assert_eq!(gate.enter(0, Instant::now() + LATE).err(), Some(SignRefusal::Down("gone".into())));
    assert_eq!(gate.refusal(), Some(SignRefusal::Down("gone".into())));
    assert!(!gate.ready());
}

#[test]
fn close_wakes_every_waiting_thread() {
    let gate = gate(2);
    gate.report(Epoch::default(), ErrorClass::Device);
    std::thread::scope(|scope| {
        let caller = scope.spawn(|| gate.enter(0, Instant::now() + LATE).err());
        let sleeper = scope.spawn(|| gate.pause(LATE));
        std::thread::sleep(SOON);
        gate.close();
        assert_eq!(caller.join().unwrap(), Some(SignRefusal::Closed));
        assert!(!sleeper.join().unwrap());
    });
    gate.open(slot(7), true);
    assert_eq!(gate.next_task(LATE), SignerTask::Close);
}

#[test]
fn a_call_that_does_not_return_makes_the_signer_unready() {
    let gate = gate(2);
    let pass = gate.enter(1, Instant::now()).unwrap();
    std::thread::sleep(SOON);
    let stuck = gate.hung_calls(SOON);
    assert_eq!(stuck, HungCalls { workers: 1, all_workers: false, supervisor: false });
    assert!(gate.mark_hung(stuck));
    assert!(!gate.mark_hung(stuck));
    assert!(!gate.ready());
    assert_eq!(gate.refusal(), None, "the other worker goes on");
    drop(pass);
    gate.mark_hung(gate.hung_calls(SOON));
    assert!(gate.ready());
}

#[test]
fn with_one_session_there_is_one_call_at_a_time() {
    let gate = gate(1);
    let pass = gate.enter(0, Instant::now()).unwrap();
    std::thread::scope(|scope| {
        let supervising = scope.spawn(|| gate.supervise().unwrap());
        std::thread::sleep(SOON);
        assert!(!supervising.is_finished(), "the supervisor and the worker call at the same time");
        drop(pass);
        let supervising = supervising.join().unwrap();
        let refused = gate.enter(0, Instant::now() + SOON).err();
        assert_eq!(refused, Some(SignRefusal::Timeout), "the worker and the supervisor call at the same time");
        let waiting = scope.spawn(|| gate.enter(0, Instant::now() + LATE).is_ok());
        drop(supervising);
        assert!(waiting.join().unwrap());
    });
}

#[test]
fn a_hung_supervisor_refuses_requests_at_once() {
    let gate = gate(1);
    let _supervising = gate.supervise().unwrap();
    std::thread::sleep(SOON);
    gate.mark_hung(gate.hung_calls(SOON));
    assert!(matches!(gate.refusal(), Some(SignRefusal::Down(_))));
}

#[test]
fn a_closed_gate_lets_no_supervisor_in() {
    let gate = gate(1);
    let _pass = gate.enter(0, Instant::now()).unwrap();
    gate.close();
    assert!(gate.supervise().is_none());
}

#[test]
fn the_supervisor_does_not_wait_with_two_sessions() {
    let gate = gate(2);
    let _pass = gate.enter(0, Instant::now()).unwrap();
    let _supervising = gate.supervise().unwrap();
    assert!(gate.enter(1, Instant::now()).is_ok());
}

#[test]
fn last_worker_without_a_session_does_not_park() {
    let gate = gate(2);
    let epoch = Epoch::default();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| gate.park(epoch, LATE));
        while gate.lock().parked == 0 {
            std::thread::yield_now();
        }
        assert!(!gate.park(epoch, LATE));
        gate.open(slot(7), true);
        assert!(first.join().unwrap());
    });
}
