/** A model in, a rewritten model out. */
module dev.octet.converter {
    requires transitive dev.octet.formats;
    requires transitive dev.octet.quant;
    requires com.fasterxml.jackson.core;
    requires com.fasterxml.jackson.databind;
    requires ai.djl.api;
    requires ai.djl.tokenizers;
    requires com.microsoft.onnxruntime;
    requires dev.hardwood.core;

    exports dev.octet.converter.data;
    exports dev.octet.converter;
    exports dev.octet.converter.checkpoint;
    exports dev.octet.converter.compare;
    exports dev.octet.converter.evaluate;
    exports dev.octet.converter.generate;
    exports dev.octet.converter.gguf;
    // a test there holds the list of operators in the documentation against the table
    exports dev.octet.converter.expand to
            dev.octet.cli;
    // a plan works with sizes that a configuration names
    exports dev.octet.converter.hf to
            dev.octet.pipeline;
    exports dev.octet.converter.inspect;
    exports dev.octet.converter.lower;
    exports dev.octet.converter.merge;
    exports dev.octet.converter.pass;
    exports dev.octet.converter.plan;
    exports dev.octet.converter.report;
    // layers inside experts are not compared
    exports dev.octet.converter.rule to
            dev.octet.pipeline;
    exports dev.octet.converter.runtime;
    exports dev.octet.converter.sensitivity;
    exports dev.octet.converter.trained;
    exports dev.octet.converter.transform;
    exports dev.octet.converter.verify;

    // the command line prints these records as JSON
    opens dev.octet.converter.inspect to
            com.fasterxml.jackson.databind;
    opens dev.octet.converter.evaluate to
            com.fasterxml.jackson.databind;
    opens dev.octet.converter.verify to
            com.fasterxml.jackson.databind;
    opens dev.octet.converter.compare to
            com.fasterxml.jackson.databind;
    // the report's data goes into its page as JSON
    opens dev.octet.converter.report to
            com.fasterxml.jackson.databind;
}
