/** Configuration files: YAML mappings whose keys are asked for by name and type, with the line of each for messages. */
@NullMarked
package dev.octet.trainer.yaml;

import org.jspecify.annotations.NullMarked;
