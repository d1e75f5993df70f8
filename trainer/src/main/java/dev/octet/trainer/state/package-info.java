/**
 * How the tensors of a run are kept from step to step: parameters, gradients and the memory of optimizers in F32 or in few bits, with
 * scales. What an optimizer computes does not depend on it: it reads and writes tiles of F32.
 */
@NullMarked
package dev.octet.trainer.state;

import org.jspecify.annotations.NullMarked;
