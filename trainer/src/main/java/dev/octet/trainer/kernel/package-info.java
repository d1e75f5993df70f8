/**
 * Operators of the trainer: the interface of an operator with its attributes at concrete shapes ({@link dev.octet.trainer.kernel.Op}), and
 * its twins, which compute it forward and backward: the plain reference, and one twin per device. The operators themselves are in
 * {@code trainer.op}, one folder each; devices call the twins.
 */
@NullMarked
package dev.octet.trainer.kernel;

import org.jspecify.annotations.NullMarked;
