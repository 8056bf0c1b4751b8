//! Intel's and Solidigm's drives.

use super::{Family, rated, unverified, unverified_gb};

pub(super) const FAMILIES: &[Family] = &[
    Family {
        source: "Intel, specification of the SSD 520",
        quoted_source: "",
        sizes: &[
            unverified_gb(&["SSDSC2CW120A3"], 120, 36500),
            unverified_gb(&["SSDSC2CW180A3"], 180, 36500),
            unverified_gb(&["SSDSC2CW240A3"], 240, 36500),
            unverified_gb(&["SSDSC2CW480A3"], 480, 36500),
        ],
    },
    Family {
        source: "Intel, specification of the SSD 530",
        quoted_source: "",
        sizes: &[
            unverified_gb(&["SSDSC2BW120A4"], 120, 36500),
            unverified_gb(&["SSDSC2BW180A4"], 180, 36500),
            unverified_gb(&["SSDSC2BW240A4"], 240, 36500),
            unverified_gb(&["SSDSC2BW480A4"], 480, 36500),
        ],
    },
    Family {
        source: "Intel, product brief of the SSD 545s",
        quoted_source: "",
        sizes: &[
            unverified(&["SSDSC2KW128G8"], 128, 72),
            unverified(&["SSDSC2KW256G8"], 256, 144),
            unverified(&["SSDSC2KW512G8"], 512, 288),
            unverified(&["SSDSC2KW010T8"], 1024, 576),
        ],
    },
    Family {
        source: "Intel, product brief of the SSD 600p",
        quoted_source: "Hardwareluxx, review of the 970 EVO Plus",
        sizes: &[
            rated(&["SSDPEKKW128G7"], 128, 72),
            rated(&["SSDPEKKW256G7"], 256, 144),
            rated(&["SSDPEKKW512G7"], 512, 288),
            rated(&["SSDPEKKW010T7"], 1024, 576),
        ],
    },
    Family {
        source: "Intel, product brief of the SSD 760p",
        quoted_source: "Hardwareluxx, review of the 970 EVO Plus",
        sizes: &[
            rated(&["SSDPEKKW256G8"], 256, 144),
            rated(&["SSDPEKKW512G8"], 512, 288),
            rated(&["SSDPEKKW010T8"], 1024, 576),
        ],
    },
    Family {
        source: "Intel, product brief of the SSD 660p",
        quoted_source: "Hardwareluxx, review of the 970 EVO Plus",
        sizes: &[
            rated(&["SSDPEKNW512G8"], 512, 100),
            rated(&["SSDPEKNW010T8"], 1024, 200),
            rated(&["SSDPEKNW020T8"], 2048, 400),
        ],
    },
    Family {
        source: "Intel, product brief of the SSD 665p",
        quoted_source: "Chia wiki, SSD Endurance",
        sizes: &[rated(&["SSDPEKNW010T9"], 1024, 300), unverified(&["SSDPEKNW020T9"], 2048, 600)],
    },
    Family {
        source: "Intel, product brief of the SSD 670p",
        quoted_source: "",
        sizes: &[
            unverified(&["SSDPEKNU512GZ"], 512, 185),
            unverified(&["SSDPEKNU010TZ"], 1024, 370),
            unverified(&["SSDPEKNU020TZ"], 2048, 740),
        ],
    },
    Family {
        source: "Intel, specification of the SSD DC S3500",
        quoted_source: "",
        sizes: &[
            unverified(&["SSDSC2BB080G4"], 80, 45),
            unverified(&["SSDSC2BB120G4"], 120, 70),
            unverified(&["SSDSC2BB160G4"], 160, 100),
            unverified(&["SSDSC2BB240G4"], 240, 140),
            unverified(&["SSDSC2BB300G4"], 300, 170),
            unverified(&["SSDSC2BB480G4"], 480, 275),
            unverified(&["SSDSC2BB600G4"], 600, 330),
            unverified(&["SSDSC2BB800G4"], 800, 450),
        ],
    },
    Family {
        source: "Intel, specification of the SSD DC S3510",
        quoted_source: "",
        sizes: &[
            unverified(&["SSDSC2BB080G6"], 80, 45),
            unverified(&["SSDSC2BB120G6"], 120, 70),
            unverified(&["SSDSC2BB240G6"], 240, 140),
            unverified(&["SSDSC2BB480G6"], 480, 275),
            unverified(&["SSDSC2BB800G6"], 800, 450),
        ],
    },
    Family {
        source: "Intel, specification of the SSD DC S3520",
        quoted_source: "",
        sizes: &[
            unverified(&["SSDSC2BB150G7"], 150, 412),
            unverified(&["SSDSC2BB240G7"], 240, 599),
            unverified(&["SSDSC2BB480G7"], 480, 945),
            unverified(&["SSDSC2BB800G7"], 800, 1663),
            unverified(&["SSDSC2BB960G7"], 960, 1750),
        ],
    },
    Family {
        source: "Intel, specification of the SSD DC S3700 (10 drive writes a day for 5 years)",
        quoted_source: "",
        sizes: &[
            unverified(&["SSDSC2BA100G3"], 100, 1825),
            unverified(&["SSDSC2BA200G3"], 200, 3650),
            unverified(&["SSDSC2BA400G3"], 400, 7300),
            unverified(&["SSDSC2BA800G3"], 800, 14600),
        ],
    },
    Family {
        source: "Intel, specification of the SSD DC P3520",
        quoted_source: "Tom's Hardware, review of the DC P3520",
        sizes: &[
            unverified(&["SSDPE2MX450G7"], 450, 590),
            unverified(&["SSDPE2MX012T7"], 1200, 1480),
            rated(&["SSDPE2MX020T7"], 2000, 2490),
        ],
    },
    Family {
        source: "Solidigm, product brief of the P41 Plus",
        quoted_source: "",
        sizes: &[
            unverified(&["SSDPFKNU512GZ"], 512, 200),
            unverified(&["SSDPFKNU010TZ"], 1024, 400),
            unverified(&["SSDPFKNU020TZ"], 2048, 800),
        ],
    },
];
