/** What gated MLPs do between their Linears, {@code act(gate) * up}: steps of several operators that a GPU does together. */
@NullMarked
package dev.octet.trainer.op.gated;

import org.jspecify.annotations.NullMarked;
