//! Streams: OpenAI's chunks, with the order of reasoning and texts.

use gw_wire::event::Event;

use super::response::USUAL_ORDER;
use crate::adapter::StreamDecoder;
use crate::adapters::replay::DETAILS;
use crate::adapters::replay::order::{Block, Order};

/// A stream that reports the order of each choice before the choice ends.
pub(super) struct OrderedStream {
    pub(super) inner: Box<dyn StreamDecoder>,
    pub(super) orders: ChoiceOrders,
}

/// The order of each choice; None after it was reported.
#[derive(Default)]
pub(super) struct ChoiceOrders(Vec<(u32, Option<Order>)>);

impl StreamDecoder for OrderedStream {
    fn feed(&mut self, chunk: &[u8], sink: &mut dyn FnMut(Event<'_>)) {
        let Self { inner, orders } = self;
        inner.feed(chunk, &mut |event| orders.event(event, sink));
    }

    fn eof(&mut self, sink: &mut dyn FnMut(Event<'_>)) {
        let Self { inner, orders } = self;
        inner.eof(&mut |event| orders.event(event, sink));
    }

    fn held_bytes(&self) -> usize {
        let list = self.orders.0.capacity() * size_of::<(u32, Option<Order>)>();
        let orders = self.orders.0.iter().filter_map(|(_, order)| order.as_ref());
        self.inner.held_bytes() + list + orders.map(Order::held_bytes).sum::<usize>()
    }

    fn work_bytes(&self, chunk: Option<&[u8]>) -> usize {
        self.inner.work_bytes(chunk)
    }
}

impl ChoiceOrders {
    fn event(&mut self, event: Event<'_>, sink: &mut dyn FnMut(Event<'_>)) {
        match &event {
            Event::Text { choice, text, .. } => self.add(*choice, Block::Text(text.len())),
            Event::Reasoning { choice, text } => self.add(*choice, Block::Thought(text.len())),
            Event::ToolStart { choice, .. } => self.add(*choice, Block::Call),
            Event::Finish { choice, .. } => {
                // Some servers repeat the finish reason.
                let order = self.0.iter_mut().find(|(known, _)| known == choice);
                let order = order.and_then(|(_, order)| order.take());
                if let Some(value) = order.and_then(|order| order.entry(&[USUAL_ORDER], 0)) {
                    sink(Event::Extra { choice: *choice, name: DETAILS, value: &value });
                }
            }
            _ => {}
        }
        sink(event);
    }

    fn add(&mut self, choice: u32, block: Block) {
        if matches!(block, Block::Text(0) | Block::Thought(0)) {
            return;
        }
        match self.0.iter_mut().find(|(known, _)| *known == choice) {
            Some((_, Some(order))) => order.add(block),
            Some((_, None)) => {}
            None => {
                let mut order = Order::default();
                order.add(block);
                self.0.push((choice, Some(order)));
            }
        }
    }
}
