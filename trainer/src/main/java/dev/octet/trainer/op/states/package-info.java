/** CopyStates: states as they were before another step changed them. */
@NullMarked
package dev.octet.trainer.op.states;

import org.jspecify.annotations.NullMarked;
