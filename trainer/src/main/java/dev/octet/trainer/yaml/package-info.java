/** Configuration files: YAML mappings and Hjson objects, read by key and type, with line numbers for messages. */
@NullMarked
package dev.octet.trainer.yaml;

import org.jspecify.annotations.NullMarked;
