//! x
use crate::hour;
#[test]
fn printed() {
    for cap in [0.0, 5.0, 0.5] { let r = crate::hedged::simulate(cap); println!("{} {} {} {}", r.p50_ms, r.p99_ms, r.hedged_percent, r.extra_percent); }
    for (strategy, hour) in hour::all() {
        println!("{:14} failed {:.3} % p50 {:.0} p99 {:.0} calls {:.3} usd/k {:.3} {:?}", strategy.as_str(), hour.failed_percent(), hour.ttft_ms(50, None), hour.ttft_ms(99, None), hour.amplification(), hour.usd / hour.requests as f64 * 1e3, hour.served);
    }
}
