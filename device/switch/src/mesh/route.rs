//! Locations of links, and the links that a packet takes: along its row to the column of its
//! destination, then along that column.

use std::fmt;

use super::Shape;

/// Direction of a link, as seen from the node where it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    /// From the node into its router.
    In,
    /// To the next router in the row.
    East,
    /// To the previous router in the row.
    West,
    /// To the router in the next row.
    South,
    /// To the router in the previous row.
    North,
    /// From the router to its node.
    Out,
}

impl fmt::Display for Port {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Port::In => "in",
            Port::East => "east",
            Port::West => "west",
            Port::South => "south",
            Port::North => "north",
            Port::Out => "out",
        })
    }
}

const PORTS: [Port; 6] = [Port::In, Port::East, Port::West, Port::South, Port::North, Port::Out];

/// A link: the node where it starts, and its direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The node where it starts.
    pub node: u16,
    /// Its direction.
    pub port: Port,
}

impl Place {
    /// Returns the number of possible links.
    pub(super) fn count(shape: Shape) -> usize {
        shape.nodes() as usize * PORTS.len()
    }

    pub(super) fn injection(node: u16) -> Place {
        Place { node, port: Port::In }
    }

    pub(super) fn index(self) -> usize {
        usize::from(self.node) * PORTS.len() + self.port as usize
    }

    pub(super) fn at(index: usize) -> Place {
        Place { node: (index / PORTS.len()) as u16, port: PORTS[index % PORTS.len()] }
    }
}

/// The links that a packet takes, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Route(Vec<usize>);

impl Route {
    /// Returns the route from one node to another.
    pub(super) fn new(shape: Shape, source: u16, destination: u16) -> Route {
        let place = |node: u16| (node % shape.columns, node / shape.columns);
        let ((mut column, mut row), (to_column, to_row)) = (place(source), place(destination));
        let mut links = Vec::with_capacity(usize::from(shape.columns) + usize::from(shape.rows));
        let mut leave = |column: u16, row: u16, port| {
            links.push(Place { node: row * shape.columns + column, port }.index());
        };
        leave(column, row, Port::In);
        while column != to_column {
            let east = column < to_column;
            leave(column, row, if east { Port::East } else { Port::West });
            column = if east { column + 1 } else { column - 1 };
        }
        while row != to_row {
            let south = row < to_row;
            leave(column, row, if south { Port::South } else { Port::North });
            row = if south { row + 1 } else { row - 1 };
        }
        leave(column, row, Port::Out);
        Route(links)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the link of a step.
    pub(super) fn link(&self, step: usize) -> usize {
        self.0[step]
    }
}
