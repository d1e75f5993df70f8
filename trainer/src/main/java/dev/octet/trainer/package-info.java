/** Combines the packages below: a model, data and a configuration become a training run. */
@NullMarked
package dev.octet.trainer;

import org.jspecify.annotations.NullMarked;
