package dev.octet.formats.op;

/** What a new version of an operator means for a node that was written for the version before. */
public enum Change {
    /** Nothing: more types, clearer words, or a new attribute or input whose default is the old behaviour. */
    COMPATIBLE,
    /** Attribute {@code axes} becomes an input; absent means all axes. */
    AXES_TO_INPUT,
    /** Attribute {@code axes}, which must be there, becomes an input. */
    REQUIRED_AXES_TO_INPUT,
    /** Attribute {@code axis} becomes an input. */
    AXIS_TO_INPUT,
    /** Attributes {@code min} and {@code max} become inputs. */
    BOUNDS_TO_INPUTS,
    /** Attribute {@code k} becomes an input. */
    K_TO_INPUT,
    /** Attributes {@code pads} and {@code value} become inputs. */
    PADS_TO_INPUTS,
    /** Attribute {@code ratio} becomes an input. */
    RATIO_TO_INPUT,
    /** Attribute {@code split} becomes an input. */
    SIZES_TO_INPUT,
    /** Attributes {@code starts}, {@code ends} and {@code axes} become inputs. */
    SLICES_TO_INPUTS,
    /** Works along one axis, no longer on the tensor seen as a matrix. */
    ALONG_ONE_AXIS,
    /** The mask becomes BOOL. */
    BOOLEAN_MASK,
    /** The default of {@code coordinate_transformation_mode} changes. */
    COORDINATE_DEFAULT,
    /** Modes {@code bilinear} and {@code bicubic} are renamed. */
    MODE_NAMES,
    /** {@code num_outputs} is required where sizes are not given. */
    OUTPUT_COUNT,
    /** Scale and bias have one element per channel, no longer one per group. */
    PER_CHANNEL,
    /** The operator is called Resize from here on. */
    RENAMED_RESIZE,
    /** The operator is called ScatterElements from here on. */
    RENAMED_SCATTER_ELEMENTS,
    /** Input {@code roi} comes in between, and the coordinate transformation has to be given. */
    ROI_INPUT,
    /** {@code tf_half_pixel_for_nn} is removed. */
    TF_HALF_PIXEL_REMOVED,
    /** The outputs of training are removed and {@code training_mode} is new. */
    TRAINING_MODE
}
