use super::*;

fn table(total: usize, per_address: usize, per_network: usize) -> ConnectionTable {
    ConnectionTable::new("test", QuotaLimits { total, per_address, per_network, ..QuotaLimits::NONE })
}

fn ip(text: &str) -> Option<IpAddr> {
    Some(text.parse().unwrap())
}

fn refusal(table: &ConnectionTable, address: Option<IpAddr>) -> Option<QuotaFull> {
    table.admit(address).err()
}

#[test]
fn an_address_has_its_bound_and_others_have_theirs() {
    let table = table(100, 2, 3);
    let first = table.admit(ip("192.0.2.1")).unwrap();
    let _second = table.admit(ip("::ffff:192.0.2.1")).unwrap();
    assert_eq!(refusal(&table, ip("192.0.2.1")), Some(QuotaFull::Address(2)));
    assert_eq!(refusal(&table, ip("192.0.2.2")), None);
    drop(first);
    assert_eq!(refusal(&table, ip("192.0.2.1")), None);
}

#[test]
fn ipv6_is_counted_by_64_and_by_48_bits() {
    let table = table(100, 2, 3);
    let mut held = vec![table.admit(ip("2001:db8:1:1::1")).unwrap(), table.admit(ip("2001:db8:1:1::2")).unwrap()];
    assert_eq!(refusal(&table, ip("2001:db8:1:1:ffff::")), Some(QuotaFull::Address(2)));
    held.push(table.admit(ip("2001:db8:1:2::1")).unwrap());
    assert_eq!(refusal(&table, ip("2001:db8:1:3::1")), Some(QuotaFull::Network(3)));
    assert_eq!(refusal(&table, ip("2001:db8:2:1::1")), None);
    held.pop();
    assert_eq!(refusal(&table, ip("2001:db8:1:3::1")), None);
}

#[test]
fn the_last_connections_are_for_addresses_with_few() {
    let table = table(80, 100, 100);
    let many: Vec<_> = std::iter::from_fn(|| table.admit(ip("192.0.2.1")).ok()).take(200).collect();
    assert_eq!(many.len(), 70);
    let few: Vec<_> = (0..10).map(|last| table.admit(ip(&format!("192.0.2.{}", last + 2))).unwrap()).collect();
    assert_eq!(refusal(&table, ip("192.0.2.99")), Some(QuotaFull::Total));
    drop(few);
    assert_eq!(refusal(&table, ip("192.0.2.99")), None);
    drop(many);
    assert!(table.0.counts.lock().connections.is_empty() && table.0.quota.is_unused());
}

#[test]
fn the_connection_that_is_idle_for_longest_makes_room() {
    let table = table(3, 10, 10);
    let busy = table.admit(None).unwrap();
    busy.activity().start();
    let request = busy.activity().begin_request();
    let idle = [table.admit(None).unwrap(), table.admit(None).unwrap()];
    for slot in &idle {
        std::thread::sleep(Duration::from_millis(20));
        slot.activity().start();
    }
    let new = table.admit(None).unwrap();
    assert_eq!([&busy, &idle[0], &idle[1]].map(|slot| slot.activity().is_evicted()), [false, true, false]);
    let other = table.admit(None).unwrap();
    assert!(idle[1].activity().is_evicted());
    assert_eq!(refusal(&table, None), Some(QuotaFull::Total), "the busy one and two that do not close by themselves");
    drop(request);
    assert_eq!(refusal(&table, None), None);
    assert!(busy.activity().is_evicted());
    drop((new, other));
}

#[test]
fn a_connection_moves_to_the_address_that_its_proxy_names() {
    let table = table(100, 1, 100);
    let (mut first, mut second) = (table.admit(None).unwrap(), table.admit(ip("192.0.2.9")).unwrap());
    first.set_address("192.0.2.1".parse().unwrap()).unwrap();
    first.set_address("192.0.2.1".parse().unwrap()).unwrap();
    assert_eq!(second.set_address("192.0.2.1".parse().unwrap()), Err(QuotaFull::Address(1)));
    assert_eq!(refusal(&table, ip("192.0.2.9")), Some(QuotaFull::Address(1)), "it is still counted where it was");
    drop(first);
    second.set_address("192.0.2.1".parse().unwrap()).unwrap();
    assert_eq!(refusal(&table, ip("192.0.2.9")), None);
}
