/** The numerics of FP8: casts, scales, recipes, statistics, error measures. */
module dev.octet.quant {
    requires transitive dev.octet.formats;
    requires com.fasterxml.jackson.core;
    requires static jdk.incubator.vector;

    exports dev.octet.quant;
    exports dev.octet.quant.number;
    exports dev.octet.quant.block;
    exports dev.octet.quant.cast;
    exports dev.octet.quant.scale;
    exports dev.octet.quant.gptq;
    exports dev.octet.quant.measure;
    exports dev.octet.quant.merge;
    exports dev.octet.quant.ggml;
    exports dev.octet.quant.statistics;
    exports dev.octet.quant.calibrate;
    exports dev.octet.quant.recipe;
    exports dev.octet.quant.layout;
    exports dev.octet.quant.transform;
    exports dev.octet.quant.work to
            dev.octet.converter,
            dev.octet.trainer;
}
