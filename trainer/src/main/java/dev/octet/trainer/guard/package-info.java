/**
 * What a guarded run decides: readings of products and the numbers of steps come in, decisions go out. Knows neither devices nor files; the run
 * measures, and applies what is decided.
 */
@NullMarked
package dev.octet.trainer.guard;

import org.jspecify.annotations.NullMarked;
