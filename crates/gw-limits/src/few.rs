//! A list of mostly one or two things, a key's and its team's, that allocates only for more.

/// One, two, or seldom more.
#[derive(Debug)]
pub(crate) struct Few<T> {
    first: Option<T>,
    second: Option<T>,
    more: Vec<T>,
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self { first: None, second: None, more: Vec::new() }
    }
}

impl<T> Few<T> {
    pub(crate) fn push(&mut self, item: T) {
        if self.first.is_none() {
            self.first = Some(item);
        } else if self.second.is_none() {
            self.second = Some(item);
        } else {
            self.more.push(item);
        }
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.first.iter_mut().chain(self.second.iter_mut()).chain(self.more.iter_mut())
    }
}
