/** The table of operators ({@link dev.octet.trainer.op.Ops}); each operator lives in a folder of its own below. */
@NullMarked
package dev.octet.trainer.op;

import org.jspecify.annotations.NullMarked;
