/** Configuration of a run: immutable records read from YAML, validated on construction. docs/training.md lists every key and default. */
@NullMarked
package dev.octet.trainer.config;

import org.jspecify.annotations.NullMarked;
