//! Reservations that accept less money than they ask for.

use super::*;

/// Femto-USD of a nano-USD.
const NANO: i128 = 1_000_000;

#[tokio::test]
async fn a_reservation_gets_what_is_left_but_at_least_its_minimum() {
    let world = world();
    let key = world.key(total(100));
    let up_to = async |most: i128, least: i128| {
        world.limiter.reserve_up_to("r", &key, 0, most * NANO, least * NANO).await
    };
    let (mut one, granted) = up_to(70, 10).await.unwrap();
    assert_eq!(granted, 70 * NANO);
    let (two, granted) = up_to(70, 30).await.unwrap();
    assert_eq!((granted, figures(&key[0])), (30 * NANO, (0, 100 * NANO)));
    let left = |left_nano| Refusal::Budget {
        subject: SubjectKind::Key,
        period: Period::Total,
        resets_in: None,
        left_nano,
    };
    assert_eq!(up_to(70, 1).await.unwrap_err(), left(0));
    drop(two);
    assert_eq!(up_to(70, 31).await.unwrap_err(), left(30));
    // A grant is a whole number of nano-USD. The fraction stays.
    one.settle("r", 0, 69 * NANO + 1);
    let (_three, granted) = up_to(70, 1).await.unwrap();
    assert_eq!((granted, figures(&key[0])), (30 * NANO, (69 * NANO + 1, 30 * NANO)));
    assert_eq!(up_to(1, 1).await.unwrap_err(), left(0));
    assert_eq!(up_to(1, 0).await.unwrap().1, 0, "a minimum of zero is always granted");
    let free = world.limiter.subject(SubjectKind::Key, "free", Limits::default());
    let granted = world.limiter.reserve_up_to("r", &[free], 0, 70 * NANO, 1).await.unwrap().1;
    assert_eq!(granted, 70 * NANO);
}

#[tokio::test]
async fn a_key_and_its_team_reserve_what_the_tighter_budget_grants() {
    let world = world();
    let key = world.key(Limits { tpm: Some(10), ..total(100) })[0].clone();
    let team = world.limiter.subject(SubjectKind::Team, "t", total(40));
    let both = [key.clone(), team.clone()];
    let (mut reserved, granted) =
        world.limiter.reserve_up_to("r", &both, 4, 70 * NANO, 30 * NANO).await.unwrap();
    assert_eq!(granted, 40 * NANO);
    assert_eq!([figures(&key), figures(&team)], [(0, 40 * NANO); 2]);
    let why = world.limiter.reserve_up_to("r", &both, 4, 70 * NANO, 1).await.unwrap_err();
    assert_eq!(
        why,
        Refusal::Budget { subject: SubjectKind::Team, period: Period::Total, resets_in: None, left_nano: 0 }
    );
    assert_eq!(figures(&key), (0, 40 * NANO), "the refusal of the team releases the reservation of the key");
    reserved.settle("r", 0, 5 * NANO);
    assert_eq!([figures(&key), figures(&team)], [(5 * NANO, 0); 2]);
    world.limiter.reserve("r", &both, 10, 0).await.expect("the tokens are free again");
}

#[test]
fn parallel_grants_use_up_the_budget_and_never_exceed_it() {
    let world = world();
    let key = world.key(total(1_000))[0].clone();
    let team = world.limiter.subject(SubjectKind::Team, "t", total(900));
    let both = [key.clone(), team.clone()];
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime().block_on(world.limiter.admit("r", &both)).unwrap();
    let spent: i128 = std::thread::scope(|scope| {
        let spenders: Vec<_> = (0..8_i128)
            .map(|n| {
                let (both, limiter) = (&both, &world.limiter);
                scope.spawn(move || {
                    let runtime = runtime();
                    let mut spent = 0;
                    for m in 0..300 {
                        let most = (1 + (n + m) % 40) * NANO;
                        let granted = runtime.block_on(limiter.reserve_up_to("r", both, 1, most, NANO));
                        if let Ok((mut reserved, granted)) = granted {
                            assert!((NANO..=most).contains(&granted));
                            reserved.settle("r", 1, granted);
                            spent += granted;
                        }
                    }
                    spent
                })
            })
            .collect();
        spenders.into_iter().map(|spender| spender.join().unwrap()).sum()
    });
    assert_eq!(spent, 900 * NANO, "the smaller budget is used up exactly");
    assert_eq!([figures(&key), figures(&team)], [(spent, 0); 2]);
}
