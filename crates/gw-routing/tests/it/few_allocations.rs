//! A decision allocates three times, in proportion to its candidates. `./bench route` measures its time.

use gw_routing::{Facts, Prior, Strategy, Weights, order};

#[test]
fn a_decision_allocates_in_proportion_to_its_candidates() {
    for strategy in Strategy::ALL {
        let bytes = |many: u32| {
            let facts: Vec<Facts> = (0..many)
                .map(|number| Facts {
                    group: number % 3,
                    cost_usd: Some(f64::from(number % 7)),
                    prior: Prior { ttft_ms: Some(f64::from(number * 37 % 101)), availability: None },
                    ..Facts::default()
                })
                .collect();
            let used = allocation_counter::measure(|| drop(order(strategy, &Weights::default(), &facts, 1)));
            assert!(used.count_total <= 3, "{strategy:?}: {used:?}");
            used.bytes_total
        };
        let (ten, thousand) = (bytes(10), bytes(1_000));
        assert!(thousand <= ten * 100 && ten <= 2_000, "{strategy:?}: {ten} and {thousand} bytes");
    }
}
