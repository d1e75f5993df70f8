/**
 * What an operator of the trainer is: its attributes at concrete shapes ({@link dev.octet.trainer.kernel.Op}), and its twins, which
 * compute it forward and backward: the plain one that is law, and one for each device. Operators themselves live in
 * {@code trainer.op}, one folder each; whoever runs programs calls the twins.
 */
@NullMarked
package dev.octet.trainer.kernel;

import org.jspecify.annotations.NullMarked;
