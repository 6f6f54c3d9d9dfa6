//! Vectors of length one, and the cosine of the angle between two of them.

/// A direction: a vector of length one. The dot product of two of them is the cosine of their angle.
#[derive(Clone, Debug, PartialEq)]
pub struct UnitVector(Box<[f32]>);

impl UnitVector {
    /// The direction of a vector. None for a vector without a direction: one that is empty, zero, or not finite.
    #[must_use]
    pub fn of(vector: &[f32]) -> Option<Self> {
        let square: f64 = vector.iter().map(|number| f64::from(*number).powi(2)).sum();
        let length = square.sqrt();
        if !length.is_finite() || length <= f64::from(f32::MIN_POSITIVE) {
            return None;
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a component lies between -1 and 1, and single precision is enough"
        )]
        let scaled = vector.iter().map(|number| (f64::from(*number) / length) as f32).collect();
        Some(Self(scaled))
    }

    /// The cosine of the angle to another vector. None if the lengths differ, because the vectors come from different
    /// models then.
    #[must_use]
    pub fn cosine(&self, other: &Self) -> Option<f32> {
        const LANES: usize = 8;
        if self.0.len() != other.0.len() {
            return None;
        }
        // Independent sums let the compiler use vector instructions.
        let mut sums = [0_f32; LANES];
        let (ours, our_rest) = self.0.as_chunks::<LANES>();
        let (theirs, their_rest) = other.0.as_chunks::<LANES>();
        for (ours, theirs) in ours.iter().zip(theirs) {
            for ((sum, our), their) in sums.iter_mut().zip(ours).zip(theirs) {
                *sum += our * their;
            }
        }
        let rest: f32 = our_rest.iter().zip(their_rest).map(|(our, their)| our * their).sum();
        Some(sums.iter().sum::<f32>() + rest)
    }

    /// The memory of the components, in bytes.
    pub(super) fn size_bytes(&self) -> usize {
        self.0.len() * size_of::<f32>()
    }
}
