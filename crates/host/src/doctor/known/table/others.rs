//! Other makers' drives.

use super::{Family, rated, unverified};

pub(super) const FAMILIES: &[Family] = &[
    Family {
        source: "Seagate, data sheet of the FireCuda 510",
        quoted_source: "",
        sizes: &[
            unverified(&["ZP500GM30001"], 500, 650),
            unverified(&["ZP1000GM30001"], 1000, 1300),
            unverified(&["ZP2000GM30001"], 2000, 2600),
        ],
    },
    Family {
        source: "Seagate, data sheet of the FireCuda 520",
        quoted_source: "",
        sizes: &[
            unverified(&["ZP500GM30002"], 500, 850),
            unverified(&["ZP1000GM30002"], 1000, 1800),
            unverified(&["ZP2000GM30002"], 2000, 3600),
        ],
    },
    Family {
        source: "Seagate, data sheet of the FireCuda 530",
        quoted_source: "",
        sizes: &[
            unverified(&["ZP500GM30013"], 500, 640),
            unverified(&["ZP1000GM30013"], 1000, 1275),
            unverified(&["ZP2000GM30013"], 2000, 2550),
            unverified(&["ZP4000GM30013"], 4000, 5100),
        ],
    },
    Family {
        source: "SK hynix, data sheet of the Gold S31",
        quoted_source: "",
        sizes: &[
            unverified(&["SHGS31-250GS"], 250, 200),
            unverified(&["SHGS31-500GS"], 500, 300),
            unverified(&["SHGS31-1000GS"], 1000, 600),
        ],
    },
    Family {
        source: "SK hynix, data sheet of the Gold P31",
        quoted_source: "Tom's Hardware, Gold P31 with 2 TB",
        sizes: &[
            unverified(&["SHGP31-500GM"], 500, 500),
            unverified(&["SHGP31-1000GM"], 1000, 750),
            rated(&["SHGP31-2000GM"], 2000, 1200),
        ],
    },
    Family {
        source: "SK hynix, data sheet of the Platinum P41",
        quoted_source: "",
        sizes: &[
            unverified(&["SHPP41-500GM"], 500, 500),
            unverified(&["SHPP41-1000GM"], 1000, 750),
            unverified(&["SHPP41-2000GM"], 2000, 1200),
        ],
    },
    Family {
        source: "Corsair, data sheet of the Force MP510",
        quoted_source: "",
        sizes: &[
            unverified(&["FORCE MP510"], 240, 400),
            unverified(&["FORCE MP510"], 480, 800),
            unverified(&["FORCE MP510"], 960, 1700),
            unverified(&["FORCE MP510"], 1920, 3120),
        ],
    },
    Family {
        source: "Corsair, data sheet of the Force MP600",
        quoted_source: "",
        sizes: &[
            unverified(&["FORCE MP600"], 500, 850),
            unverified(&["FORCE MP600"], 1000, 1800),
            unverified(&["FORCE MP600"], 2000, 3600),
        ],
    },
    Family {
        source: "ADATA, data sheet of the SU800",
        quoted_source: "",
        sizes: &[
            unverified(&["SU800"], 128, 100),
            unverified(&["SU800"], 256, 200),
            unverified(&["SU800"], 512, 400),
            unverified(&["SU800"], 1024, 800),
        ],
    },
];
