/**
 * A graph at concrete shapes becomes a program: forward steps, casts as the precision policy wants them, gradient steps where trained
 * parameters and the loss meet. Also says which constants of a graph are parameters. Makes programs; runs none.
 */
@NullMarked
package dev.octet.trainer.autodiff;

import org.jspecify.annotations.NullMarked;
