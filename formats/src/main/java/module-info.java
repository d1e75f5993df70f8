/** Number types, tensors, graphs, and the files they live in. */
module dev.octet.formats {
    requires transitive org.jspecify;
    requires com.fasterxml.jackson.core;
    requires transitive com.fasterxml.jackson.databind;
    requires com.google.protobuf;

    exports dev.octet.formats;
    exports dev.octet.formats.error;
    exports dev.octet.formats.tensor;
    exports dev.octet.formats.graph;
    exports dev.octet.formats.op;
    exports dev.octet.formats.model;
    exports dev.octet.formats.safetensors;
    exports dev.octet.formats.checkpoint;
    exports dev.octet.formats.peft;
    exports dev.octet.formats.onnx;
    exports dev.octet.formats.npy;
    exports dev.octet.formats.gguf;
    exports dev.octet.formats.pickle;
    exports dev.octet.formats.torch;
    exports dev.octet.formats.dcp;
    exports dev.octet.formats.deepspeed;
    exports dev.octet.formats.megatron;
    exports dev.octet.formats.file;
}
